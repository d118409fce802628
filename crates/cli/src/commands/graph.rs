//! `pipeline graph [FILE]`

use crate::args::{Global, GraphFormat, OptionalSource};
use crate::failure::{Failure, exit};
use crate::printer::Printer;
use crate::session::Session;

pub async fn graph(
    source: &OptionalSource,
    format: GraphFormat,
    global: &Global,
    printer: &Printer,
) -> Result<u8, Failure> {
    let pipeline = crate::load::optional(source, global).await?;
    let plan = Session::sketch(&pipeline)?;
    printer.data(&match format {
        GraphFormat::Mermaid => plan::mermaid(&plan),
        GraphFormat::Dot => plan::dot(&plan),
    });
    Ok(exit::OK)
}

//! Inline SVG: curves of metrics over steps, and intervals of win rates.

use std::fmt::Write;

use eval::Interval;

use super::escape;
use crate::collect::Collected;
use crate::format::{ends, number, percent};

/// Size of a curve's plot area in user units.
const WIDTH: f64 = 280.0;
const HEIGHT: f64 = 110.0;
/// Points drawn of a curve at most; longer ones are averaged in equal parts.
const MAX_POINTS: usize = 240;
/// Curves drawn of one stage at most.
const MAX_CURVES: usize = 24;
/// What a reader looks for first, by part of the name.
const FIRST: [&str; 5] = ["reward", "kl", "loss", "accuracy", "score"];

/// All curves of one stage; nothing if it has none of at least two points.
pub(super) fn curves(collected: &Collected) -> String {
    let mut curves: Vec<_> = collected.curves.iter().filter(|(_, points)| points.len() > 1).collect();
    if curves.is_empty() {
        return String::new();
    }
    let rank = |name: &str| FIRST.iter().position(|part| name.contains(part)).unwrap_or(FIRST.len());
    curves.sort_by_key(|(name, _)| (rank(name), *name));
    curves.truncate(MAX_CURVES);
    let figures: String = curves.into_iter().map(|(name, points)| curve(name, points)).collect();
    let stage = escape(&collected.stage.name);
    format!("<h3>{stage}</h3>\n<div class=\"curves\">\n{figures}</div>\n")
}

/// One metric over steps, with its range on the left and its steps below.
fn curve(name: &str, points: &[(f64, f64)]) -> String {
    let points = thin(points);
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let values = points.iter().map(of);
        (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max))
    };
    let ((x0, x1), (y0, y1)) = (bounds(|p| p.0), bounds(|p| p.1));
    // A flat curve is drawn in the middle.
    let (low, high) = if y1 > y0 { (y0, y1) } else { (y0 - 1.0, y1 + 1.0) };
    let span = if x1 > x0 { x1 - x0 } else { 1.0 };
    let place =
        |x: f64, y: f64| (60.0 + WIDTH * (x - x0) / span, 8.0 + HEIGHT * (1.0 - (y - low) / (high - low)));
    let mut path = String::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        let (x, y) = place(x, y);
        // Writing to a String cannot fail.
        let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
    }
    let last = points.last().map_or(0.0, |point| point.1);
    let mut marks = String::new();
    if low < 0.0 && high > 0.0 {
        let (_, y) = place(x0, 0.0);
        marks += &format!("<path class=\"zero\" d=\"M60 {y:.1}H{:.1}\"/>\n", 60.0 + WIDTH);
    }
    if y1 > y0 {
        marks += &label(54.0, 14.0, "end", &number(y1));
        marks += &label(54.0, 6.0 + HEIGHT, "end", &number(y0));
    } else {
        marks += &label(54.0, 12.0 + HEIGHT / 2.0, "end", &number(y0));
    }
    marks += &label(60.0, 24.0 + HEIGHT, "start", &number(x0));
    marks += &label(60.0 + WIDTH, 24.0 + HEIGHT, "end", &format!("step {}", number(x1)));
    let (name, last) = (escape(name), number(last));
    let (right, bottom) = (60.0 + WIDTH, 8.0 + HEIGHT);
    format!(
        "<figure>\n<figcaption>{name} <span>last {last}</span></figcaption>\n\
         <svg viewBox=\"0 0 350 138\" role=\"img\" aria-label=\"{name} over steps, last {last}\">\n\
         <path class=\"axis\" d=\"M60 8V{bottom:.1}H{right:.1}\"/>\n{marks}\
         <path class=\"line\" d=\"{path}\"/>\n</svg>\n</figure>\n"
    )
}

fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escape(text))
}

/// At most [`MAX_POINTS`] points: means over equal parts.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let part = points.len().div_ceil(MAX_POINTS).max(1);
    let mean = |of: fn(&(f64, f64)) -> f64, part: &[(f64, f64)]| {
        part.iter().map(of).sum::<f64>() / part.len() as f64
    };
    points.chunks(part).map(|part| (mean(|p| p.0, part), mean(|p| p.1, part))).collect()
}

/// Win rates with whiskers on a line from 0 to 100 percent; 50 is even.
pub(super) fn intervals(rows: &[(&str, &Interval)]) -> String {
    let (left, width, row_height) = (150.0, 420.0, 30.0);
    let bottom = 10.0 + row_height * rows.len() as f64;
    let place = |value: f64| left + width * value.clamp(0.0, 100.0) / 100.0;
    let mut marks = String::new();
    for tick in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let (x, class) = (place(tick), if tick == 50.0 { "even" } else { "grid" });
        marks += &format!("<path class=\"{class}\" d=\"M{x:.1} 4V{bottom:.1}\"/>\n");
        marks += &label(x, bottom + 16.0, "middle", &format!("{tick}"));
    }
    for (index, (model, rate)) in rows.iter().enumerate() {
        let y = 10.0 + row_height * (index as f64 + 0.5);
        let (low, mean, high) = (place(rate.low), place(rate.mean), place(rate.high));
        marks += &label(left - 12.0, y + 4.0, "end", &shorten(model));
        marks += &format!("<path class=\"whisker\" d=\"M{low:.1} {y:.1}H{high:.1}\"/>\n");
        marks += &format!("<circle cx=\"{mean:.1}\" cy=\"{y:.1}\" r=\"5\"/>\n");
        let value = format!("{} ({})", percent(rate.mean), ends(rate, 1.0));
        marks += &label(left + width + 14.0, y + 4.0, "start", &value);
    }
    let height = bottom + 22.0;
    format!("<svg viewBox=\"0 0 720 {height:.0}\" role=\"img\" aria-label=\"Win rates\">\n{marks}</svg>\n")
}

fn shorten(name: &str) -> String {
    const ROOM: usize = 20;
    if name.chars().count() <= ROOM {
        return name.into();
    }
    name.chars().take(ROOM - 1).chain(['…']).collect()
}

use crate::backend::HydraBackend;
use burn::backend::Flex;
impl HydraBackend for Flex {}

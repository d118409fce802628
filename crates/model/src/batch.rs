//! Rows of token ids padded to one width.

/// A rectangle of token ids; in each row the real tokens are one contiguous run.
///
/// Pads may be on the right or on the left. Everything that depends on padding (positions, what attention
/// may see) follows from where the runs are, never from the value of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBatch {
    ids: Vec<u32>,
    rows: usize,
    cols: usize,
    /// `(first column, number of real tokens)` of each row.
    spans: Vec<(usize, usize)>,
}

impl TokenBatch {
    /// Rows that begin in column 0, padded on the right to the longest.
    pub fn right_padded<R: AsRef<[u32]>>(rows: &[R], pad: u32) -> Self {
        Self::padded(rows, pad, |_, _| 0)
    }

    /// Rows that end in the last column, padded on the left to the longest.
    pub fn left_padded<R: AsRef<[u32]>>(rows: &[R], pad: u32) -> Self {
        Self::padded(rows, pad, |cols, len| cols - len)
    }

    fn padded<R: AsRef<[u32]>>(rows: &[R], pad: u32, start: impl Fn(usize, usize) -> usize) -> Self {
        let cols = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
        let mut ids = vec![pad; rows.len() * cols];
        let mut spans = Vec::with_capacity(rows.len());
        for (index, row) in rows.iter().map(AsRef::as_ref).enumerate() {
            let first = start(cols, row.len());
            let at = index * cols + first;
            ids[at..at + row.len()].copy_from_slice(row);
            spans.push((first, row.len()));
        }
        Self { ids, rows: rows.len(), cols, spans }
    }

    /// All ids, row after row, pads included.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Width: tokens per row, pads included.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// First column of the row's real tokens.
    pub fn start(&self, row: usize) -> usize {
        self.spans[row].0
    }

    /// Number of the row's real tokens.
    pub fn len(&self, row: usize) -> usize {
        self.spans[row].1
    }

    /// Whether there is no token at all.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Index into `[rows · cols]` of the row's `token`-th real token.
    pub fn flat(&self, row: usize, token: usize) -> usize {
        debug_assert!(token < self.len(row), "token {token} of a row of {}", self.len(row));
        row * self.cols + self.start(row) + token
    }

    /// One flag per id: whether it is a real token.
    pub fn mask(&self) -> Vec<bool> {
        let mut mask = vec![false; self.ids.len()];
        for (row, &(start, len)) in self.spans.iter().enumerate() {
            let at = row * self.cols + start;
            mask[at..at + len].fill(true);
        }
        mask
    }

    /// One position per id: real tokens count from 0 in each row, pads have 0.
    pub fn positions(&self) -> Vec<u32> {
        let mut positions = vec![0; self.ids.len()];
        for (row, &(start, len)) in self.spans.iter().enumerate() {
            let at = row * self.cols + start;
            for (offset, position) in positions[at..at + len].iter_mut().enumerate() {
                *position = offset as u32;
            }
        }
        positions
    }

    /// Indices into `[rows · cols]` of the real tokens, row after row.
    pub(crate) fn cells(&self) -> Vec<usize> {
        let span = |(row, &(start, len)): (usize, &(usize, usize))| {
            let first = row * self.cols + start;
            first..first + len
        };
        self.spans.iter().enumerate().flat_map(span).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a26_each_use_pads_on_its_own_side() {
        let rows: [&[u32]; 2] = [&[5, 6, 7], &[8]];
        let right = TokenBatch::right_padded(&rows, 0);
        assert_eq!(right.ids(), [5, 6, 7, 8, 0, 0]);
        assert_eq!(right.mask(), [true, true, true, true, false, false]);
        assert_eq!(right.positions(), [0, 1, 2, 0, 0, 0]);
        let left = TokenBatch::left_padded(&rows, 0);
        assert_eq!(left.ids(), [5, 6, 7, 0, 0, 8]);
        assert_eq!(left.mask(), [true, true, true, false, false, true]);
        assert_eq!(left.positions(), [0, 1, 2, 0, 0, 0]);
        assert_eq!((left.flat(1, 0), right.flat(1, 0)), (5, 3));
        assert_eq!(left.cells(), [0, 1, 2, 5]);
    }

    #[test]
    fn pads_that_look_like_tokens_are_still_pads() {
        let batch = TokenBatch::right_padded(&[vec![0, 1], vec![0]], 0);
        assert_eq!(batch.mask(), [true, true, true, false]);
    }
}

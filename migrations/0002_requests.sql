-- What a person asked of a run's process from another one: 'pause' or 'cancel'.
ALTER TABLE runs ADD COLUMN request TEXT CHECK (request IN ('pause', 'cancel'));

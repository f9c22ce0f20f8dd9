-- What a mark stands for: a signature that covers only a part of its request is good for the request that came with it first.
-- Marks that were made before stand for nothing in particular.
ALTER TABLE replay ADD COLUMN meaning BLOB NOT NULL DEFAULT x'00000000000000000000000000000000';

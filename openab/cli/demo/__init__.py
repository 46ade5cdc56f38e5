"""`openab demo`: the main job on embedded defaults, live in one terminal, with proofs from the journal."""

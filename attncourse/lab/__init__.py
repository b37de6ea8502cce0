"""Small experiments: tasks whose right map is known, models that learn them, and their training."""

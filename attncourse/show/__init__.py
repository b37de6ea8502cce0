"""What a chapter shows: figures with their alt text, diagrams, and code as it stands in the package."""

"""Service accounts, their tokens, and questions about rights."""

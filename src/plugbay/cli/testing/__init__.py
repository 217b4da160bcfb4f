"""Commands that test plugins: conform, trace, chaos."""

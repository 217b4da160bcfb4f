"""Made by ``make proto`` from ``../proto``; never edited."""

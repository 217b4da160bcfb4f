"""Everything that findings are made of: values, and readers with deadlines that note what they could not read."""

"""Any device of the machine, by identity: rules in a file say which devices are which resource, and what pods get."""

"""Random faults and hostile inputs, drawn from seeds; what each did is classified into one table."""

"""What programs are made of: tables of statements with holes, by subject."""

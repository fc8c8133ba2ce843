"""The grammar of programs: tables of statements with holes, by subject."""

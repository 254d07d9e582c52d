"""What a person looks at: tables, figures and HTML pages."""

"""Tables that other programs wrote. One function reads all of them: read_table in reader.py.

The files in reading order:

    reader.py           The one reader of tables: which format a file has, and whether it is one.
    rows.py             A table as text: header, rows, and the faults of a row.
    numbers.py          What a number is: one grammar for all readers and flags.
    thousands.py        Columns whose numbers have signs between thousands.
    file_text.py        Bytes -> text: encodings, and files that are no text.
    delimited.py        Delimited text -> rows: the delimiter and the use of quotes.
    json_rows.py        JSON lines and arrays -> rows.
    workbooks.py        Excel workbooks -> rows.
    headers.py          Tables without a header, and columns by position.
    columns.py          Which column holds what.
    label_notes.py      Warnings about labels that may be mistakes.
    spreadsheets.py     Writes tables that a spreadsheet opens.
"""

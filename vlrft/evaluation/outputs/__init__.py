"""Stored outputs of any model: a file of another tool, or a plain table, as rows with an id, an output and a gold answer.

    columns         the row of an output, and the columns that it is read from
    stored_file     the rows of a jsonl, json, csv, tsv, parquet, arrow or xlsx file
    lmms_eval       lmms-eval's --log_samples
    vlmevalkit      VLMEvalKit's result tables
    r1v             R1-V's result json
    plain           any other table; its columns are named or guessed
    read            a file -> its rows, by the first format that recognises it

A new format is a file with a `FORMAT` and an entry of `read.FORMATS`.
"""

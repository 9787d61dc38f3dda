-- Sessions that are opened from now on may write again; those that were opened before still may not.
alter role hudhud reset default_transaction_read_only;

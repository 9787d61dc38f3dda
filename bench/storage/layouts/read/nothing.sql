null;

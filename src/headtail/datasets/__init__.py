"""Where graphs come from: files, named data sets, synthetic graphs, objects of other libraries."""

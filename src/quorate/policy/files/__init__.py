"""Files of rates, jobs, clusters, problems and allocations: read with located errors, written."""

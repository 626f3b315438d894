"""Generated CRI v1 modules; api.proto beside them is the source."""

package build

// Progress says how far a step is. The reader computes rates and the time left.
type Progress struct {
	Step  string // of the build; whoever does the step leaves it out, and the pipeline sets it
	Done  int64  // in Unit
	Total int64  // in Unit; 0: unknown
	Unit  string // "bytes", "files" or "" if only Note says something
	Note  string // one line of what is being done, such as a line of the installer's output
}

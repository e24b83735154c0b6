package steps

// Progress says how much of a step is done. The reader computes rates and the time left.
type Progress struct {
	Step  string // name of the step; the pipeline sets it
	Done  int64  // in Unit
	Total int64  // in Unit; 0: unknown
	Unit  string // "bytes", "files" or "" if only Note says something
	Note  string // one line about the current work, such as a line of the installer's output
	Held  bool   // a program uses the terminal until the next report; the reader must draw nothing
}

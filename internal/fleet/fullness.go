package fleet

// Fullness says how full the storage for a node's writes is.
type Fullness int

// The levels. Almost is time to do something, Full that writes fail soon.
const (
	Roomy  Fullness = iota
	Almost          // 80 % or more
	Full            // 95 % or more
)

// FullnessOf judges one resource. A total of 0 is unknown.
func FullnessOf(used, total int64) Fullness {
	switch {
	case total <= 0 || used*100 < total*80:
		return Roomy
	case used*100 < total*95:
		return Almost
	}
	return Full
}

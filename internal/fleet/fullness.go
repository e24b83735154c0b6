package fleet

// Fullness says how full the storage for a node's writes is.
type Fullness int

// The levels. At Almost an operator should act; at Full writes fail soon.
const (
	Roomy  Fullness = iota
	Almost          // 80 % or more
	Full            // 95 % or more
)

// FullnessOf returns the level of one resource. A total of 0 means unknown, which is Roomy.
func FullnessOf(used, total int64) Fullness {
	switch {
	case total <= 0 || used*100 < total*80:
		return Roomy
	case used*100 < total*95:
		return Almost
	}
	return Full
}

package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// matrix is a picture of the bytes sent: a row for each receiver, a column for each sender, servers first. If there are
// too many nodes for a screen, neighbours share a row.
type matrix struct {
	Width, Height int      // of the picture, in cells
	Left          int      // where the nodes' columns start
	Margin, Top   int      // space for the names, in cells
	Text          float64  // font size of names, in cells
	Levels        []string // paths of the cells, by amount, the least first
	Servers       []string // the same for servers' columns
	Labels        []matrixLabel
	Lines         []int // rows and columns before which a line separates places
	Each          int   // number of nodes in one row
	Tips          string
}

// matrixLabel is the name of a row, or of a place at its first row.
type matrixLabel struct {
	Text string
	Y    float64
}

// Sizes of a matrix: rows, up to how many rows each has a name, and shades.
const (
	matrixRows  = 160
	matrixNamed = 40
	levels      = 5
)

// newMatrix returns the picture of the bytes that nodes received, and their senders.
func newMatrix(nodes []sender, at map[string]int) *matrix {
	row, names, starts := binned(nodes, true)
	if len(names) > 2*matrixRows { // too many places to separate them
		row, names, starts = binned(nodes, false)
	}
	rows := len(names)
	m := &matrix{Height: rows, Each: (len(nodes) + rows - 1) / rows}
	wide := max(rows/20, 1)
	m.Left = wide + max(rows/60, 1)
	m.Width = m.Left + rows
	m.Text = max(float64(rows)*0.021, 0.35)
	m.Margin, m.Top = max(rows/6, 2), int(2*m.Text)+1
	server, peers := make([]int64, rows), make([][]int64, rows)
	others := false
	for i := range peers {
		peers[i] = make([]int64, rows+1)
	}
	for i, n := range nodes {
		server[row[i]] += n.Server
		for _, s := range n.from {
			if j, ok := at[s.Node]; ok && s.Node != "" {
				peers[row[i]][row[j]] += s.Bytes
			} else if isPeer(s) {
				peers[row[i]][rows] += s.Bytes
				others = true
			}
		}
	}
	if others { // nodes that booted before the storm share a column
		m.Width = m.Left + rows + max(rows/60, 1) + wide
	}
	m.paint(server, peers, wide)
	for i, start := range starts {
		if i > 0 {
			m.Lines = append(m.Lines, start)
		}
		if rows > matrixNamed {
			m.Labels = append(m.Labels, matrixLabel{nodes[slices.Index(row, start)].Place, float64(start) + 2*m.Text})
		}
	}
	if rows <= matrixNamed {
		for i, name := range names {
			m.Labels = append(m.Labels, matrixLabel{name, float64(i) + 0.5 + m.Text/3})
		}
	}
	m.tell(names, server, peers)
	return m
}

// binned returns the row of each node. With mindful, a row of several nodes does not span places.
func binned(nodes []sender, mindful bool) (row []int, names []string, starts []int) {
	each := (len(nodes) + matrixRows - 1) / matrixRows
	in := 0
	for i, n := range nodes {
		if newPlace := i == 0 || mindful && nodes[i-1].Place != n.Place; newPlace || in == each {
			if newPlace {
				starts = append(starts, len(names))
			}
			names, in = append(names, n.Name), 0
		} else {
			first, _, _ := strings.Cut(names[len(names)-1], " to ")
			names[len(names)-1] = first + " to " + n.Name
		}
		in++
		row = append(row, len(names)-1)
	}
	return row, names, starts
}

// paint computes the paths of cells. Servers have a scale of their own, because they send more than any node.
func (m *matrix) paint(server []int64, peers [][]int64, wide int) {
	m.Levels, m.Servers = make([]string, levels), make([]string, levels)
	var most int64
	for _, r := range peers {
		most = max(most, slices.Max(r))
	}
	for y, r := range peers {
		if l := level(server[y], slices.Max(server)); l >= 0 {
			m.Servers[l] += fmt.Sprintf("M0 %dh%dv1h-%dz", y, wide, wide)
		}
		for x, bytes := range r {
			l := level(bytes, most)
			switch {
			case l < 0:
			case x == len(peers):
				m.Levels[l] += fmt.Sprintf("M%d %dh%dv1h-%dz", m.Width-wide, y, wide, wide)
			default:
				m.Levels[l] += fmt.Sprintf("M%d %dh1v1h-1z", m.Left+x, y)
			}
		}
	}
}

// level returns the shade of a cell: each level stands for twice the amount of the one before. -1 means nothing.
func level(bytes, most int64) int {
	if bytes <= 0 {
		return -1
	}
	l := levels - 1
	for l > 0 && bytes < most/2 {
		bytes, l = bytes*2, l-1
	}
	return l
}

// tell fills in the data for the pointer's text: names, and for each row the non-empty columns with their kilobytes.
func (m *matrix) tell(names []string, server []int64, peers [][]int64) {
	out := struct {
		Names  []string  `json:"names"`
		Left   int       `json:"left"`
		Server []int64   `json:"server"`
		Rows   [][]int64 `json:"rows"` // column, kilobytes, column, kilobytes, ...
	}{names, m.Left, server, nil}
	for _, r := range peers {
		cells := []int64{}
		for x, bytes := range r {
			if bytes > 0 {
				cells = append(cells, int64(x), cmp.Or((bytes+500)/1000, 1))
			}
		}
		out.Rows = append(out.Rows, cells)
	}
	for y := range out.Server {
		out.Server[y] = (server[y] + 500) / 1000
	}
	text, _ := json.Marshal(out) // strings and numbers always encode
	m.Tips = string(text)
}

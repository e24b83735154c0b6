package registry

import (
	"fmt"
	"time"

	"pando/internal/fleet"
)

// TagMove is one change of a tag.
type TagMove struct {
	Image, Tag string
	Version    fleet.Digest // "": the tag was deleted
	Was        fleet.Digest // "": the tag is new
	At         time.Time
	Who        string // the operator's token, or a remark that it was done on the server's machine
}

// tagMovesKept is how many moves are kept for each image.
const tagMovesKept = 1000

// AddTagMove records a change of a tag, unless both versions are the same.
func (t *Tx) AddTagMove(m TagMove) error {
	if m.Version == m.Was {
		return nil
	}
	_, err := t.exec(`INSERT INTO tag_moves (image, tag, version, was, at, who) VALUES (?, ?, ?, ?, ?, ?)`,
		m.Image, m.Tag, string(m.Version), string(m.Was), stamp(m.At), m.Who)
	if err == nil {
		_, err = t.exec(`DELETE FROM tag_moves WHERE image = ? AND seq <= (SELECT seq FROM tag_moves WHERE image = ?
			ORDER BY seq DESC LIMIT 1 OFFSET ?)`, m.Image, m.Image, tagMovesKept)
	}
	if err != nil {
		return fmt.Errorf("record move of tag %s:%s: %w", m.Image, m.Tag, err)
	}
	return nil
}

// TagMoves returns the moves of an image's tags, newest first; "" means all images.
func (t *Tx) TagMoves(image string) ([]TagMove, error) {
	m, err := list(
		t, scanTagMove,
		`SELECT image, tag, version, was, at, who FROM tag_moves WHERE ? IN ('', image) ORDER BY seq DESC`, image,
	)
	if err != nil {
		return nil, fmt.Errorf("list moves of tags: %w", err)
	}
	return m, nil
}

func scanTagMove(s scanner) (TagMove, error) {
	var m TagMove
	var at int64
	err := s.Scan(&m.Image, &m.Tag, &m.Version, &m.Was, &at, &m.Who)
	m.At = unstamp(at)
	return m, err
}

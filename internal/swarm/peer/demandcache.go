package peer

import "pando/internal/chunk"

// demandCache holds the demand objects that a node fetched last, up to a limit of bytes.
type demandCache struct {
	most    int // limit in bytes
	objects map[chunk.ID]chunk.Verified
	order   []chunk.ID
	bytes   int
}

func (l *demandCache) get(id chunk.ID) (chunk.Verified, bool) {
	v, ok := l.objects[id]
	return v, ok
}

func (l *demandCache) put(id chunk.ID, v chunk.Verified) {
	if _, ok := l.objects[id]; ok || len(v.Stored()) > l.most {
		return
	}
	if l.objects == nil {
		l.objects = map[chunk.ID]chunk.Verified{}
	}
	l.objects[id] = v
	l.order = append(l.order, id)
	for l.bytes += len(v.Stored()); l.bytes > l.most; l.order = l.order[1:] {
		l.bytes -= len(l.objects[l.order[0]].Stored())
		delete(l.objects, l.order[0])
	}
}

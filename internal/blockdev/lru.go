package blockdev

import "container/list"

// lru keeps the values used last, up to a limit of their costs. The zero value keeps nothing.
type lru[K comparable, V any] struct {
	limit, cost int64
	items       map[K]*list.Element
	order       list.List // of *item, the one used last in front
}

type item[K comparable, V any] struct {
	key   K
	value V
	cost  int64
}

func (l *lru[K, V]) get(k K) (v V, ok bool) {
	e, ok := l.items[k]
	if !ok {
		return v, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*item[K, V]).value, true
}

// peek is get without counting a use.
func (l *lru[K, V]) peek(k K) (v V, ok bool) {
	e, ok := l.items[k]
	if !ok {
		return v, false
	}
	return e.Value.(*item[K, V]).value, true
}

// recost sets the present cost of k.
func (l *lru[K, V]) recost(k K, cost int64) {
	x := l.items[k].Value.(*item[K, V])
	l.cost += cost - x.cost
	x.cost = cost
}

func (l *lru[K, V]) has(k K) bool {
	_, ok := l.items[k]
	return ok
}

// put adds the new key k, and returns the least recently used values that it drops for it. A value that costs more than
// the limit is not kept.
func (l *lru[K, V]) put(k K, v V, cost int64) (gone []V) {
	if cost > l.limit || l.has(k) {
		return []V{v}
	}
	if l.items == nil {
		l.items = map[K]*list.Element{}
	}
	l.items[k] = l.order.PushFront(&item[K, V]{k, v, cost})
	l.cost += cost
	return l.shrink(l.limit)
}

// shrink drops the values unused for longest until the rest costs at most limit, and returns them.
func (l *lru[K, V]) shrink(limit int64) (gone []V) {
	for l.cost > max(0, limit) {
		gone = append(gone, l.drop(l.order.Back().Value.(*item[K, V]).key)...)
	}
	return gone
}

// drop drops k, and returns its value if there was one.
func (l *lru[K, V]) drop(k K) (gone []V) {
	if e, ok := l.items[k]; ok {
		x := l.order.Remove(e).(*item[K, V])
		l.cost -= x.cost
		delete(l.items, k)
		return []V{x.value}
	}
	return nil
}

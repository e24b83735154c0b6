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

func (l *lru[K, V]) has(k K) bool {
	_, ok := l.items[k]
	return ok
}

// put adds k, which is not in l yet, and lets go of what was not used for longest. What costs more than the
// limit is not kept.
func (l *lru[K, V]) put(k K, v V, cost int64) {
	if cost > l.limit || l.has(k) {
		return
	}
	if l.items == nil {
		l.items = map[K]*list.Element{}
	}
	l.items[k] = l.order.PushFront(&item[K, V]{k, v, cost})
	for l.cost += cost; l.cost > l.limit; {
		l.drop(l.order.Back().Value.(*item[K, V]).key)
	}
}

func (l *lru[K, V]) drop(k K) {
	if e, ok := l.items[k]; ok {
		l.cost -= l.order.Remove(e).(*item[K, V]).cost
		delete(l.items, k)
	}
}

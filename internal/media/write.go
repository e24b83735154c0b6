package media

// Write is one step of writing a medium. The steps are carried out in order, each durable before the next begins:
// that is what keeps a slot whole or empty at any moment.
type Write struct {
	At   int64 // bytes from the start of the medium
	Data []byte
}

// Medium is all that makes a disk of so many bytes a boot medium with K in its first slot. What was on the disk is lost:
// its partition table is gone with the first write, and the new one comes last, so that a disk that is half written has
// none. The cache's partition begins with zeros, so that nothing old is taken for a cache.
func Medium(size int64, seed [16]byte, l Loader, k K) ([]Write, error) {
	if err := checkSize(size); err != nil {
		return nil, err
	}
	bootCode, core, err := l.embed()
	if err != nil {
		return nil, err
	}
	esp, err := fat32(espSize, "PANDO", l.files())
	if err != nil {
		return nil, err
	}
	first, last := table(size, seed, partitions(size), bootCode)
	body, err := slot(1, k)
	if err != nil {
		return nil, err
	}
	return []Write{
		{0, make([]byte, len(first))},
		{loaderAt, core},
		{espAt, esp},
		{SlotAt(0), body},
		{SlotAt(1), make([]byte, headerSize)},
		{cacheAt, make([]byte, mib)},
		{size - int64(len(last)), last},
		{0, first},
	}, nil
}

// Renew puts K into the slot that is not the newest. It is nothing when the newest has it already.
func Renew(now [Slots]Header, k K) ([]Write, error) {
	newest, into := 0, 1
	if now[1].Sequence > now[0].Sequence {
		newest, into = 1, 0
	}
	if now[newest].Sequence == 0 {
		into = newest
	}
	if now[newest].Digest == k.Digest() {
		return nil, nil
	}
	body, err := slot(now[newest].Sequence+1, k)
	if err != nil {
		return nil, err
	}
	at := SlotAt(into)
	return []Write{{at, make([]byte, Sector)}, {at + Sector, body[Sector:]}, {at, body[:Sector]}}, nil
}

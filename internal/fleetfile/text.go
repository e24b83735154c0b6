package fleetfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// textOf converts what spreadsheets and editors save to UTF-8. For other encodings it adds an error that says what to
// do.
func (p *problems) textOf(raw []byte) []byte {
	switch {
	case bytes.HasPrefix(raw, []byte("PK\x03\x04")):
		p.add(0, "", "it is a workbook (.xlsx, .ods) or another zip archive: save the sheet as \"CSV UTF-8\"")
	case bytes.HasPrefix(raw, []byte("\xd0\xcf\x11\xe0")):
		p.add(0, "", "it is a workbook of an old Excel (.xls): save the sheet as \"CSV UTF-8\"")
	case bytes.HasPrefix(raw, []byte("\xef\xbb\xbf")):
		raw = raw[3:]
	case bytes.HasPrefix(raw, []byte("\xff\xfe")):
		raw = p.utf16(raw[2:], binary.LittleEndian)
	case bytes.HasPrefix(raw, []byte("\xfe\xff")):
		raw = p.utf16(raw[2:], binary.BigEndian)
	}
	if len(p.list) > 0 {
		return nil
	}
	if i := bytes.IndexByte(raw, 0); i >= 0 {
		p.addAt(raw, i, "it is no text: a byte of value 0; save the table as \"CSV UTF-8\"")
		return nil
	}
	for i := 0; i < len(raw); {
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			p.addAt(raw, i, fmt.Sprintf("the byte %#x is not UTF-8: save the table as \"CSV UTF-8\", or convert it "+
				"with `iconv -f WINDOWS-1252 -t UTF-8 %s`", raw[i], p.file))
			return nil
		}
		i += n
	}
	return raw
}

// addAt adds an error for a byte offset, with its line and its column in characters.
func (p *problems) addAt(raw []byte, at int, text string) {
	begin := bytes.LastIndexByte(raw[:at], '\n') + 1
	p.add(1+bytes.Count(raw[:at], []byte("\n")), fmt.Sprint(utf8.RuneCount(raw[begin:at])+1), "%s", text)
}

func (p *problems) utf16(raw []byte, order binary.ByteOrder) []byte {
	if len(raw)%2 != 0 {
		p.add(0, "", "it is UTF-16 and cut off: save the table as \"CSV UTF-8\"")
		return nil
	}
	words := make([]uint16, len(raw)/2)
	for i := range words {
		words[i] = order.Uint16(raw[2*i:])
	}
	return []byte(string(utf16.Decode(words)))
}

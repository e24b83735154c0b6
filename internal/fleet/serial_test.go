package fleet

import "testing"

// Placeholders that makers leave instead of a serial number, as reported from the field.
func TestPlaceholderSerials(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", " ", "0", "-", ".", "..", "........", "*", "N/A", "n/a", "NA", "None", "NONE", "none ", "NULL",
		"(null)", "nil",
		"Not Available", "Not Applicable", "Not Specified", "Not Provided", "Not Defined", "Not Present", "not set",
		"Default string", "Default_string", "Default String", "DEFAULT", "$(DEFAULT_STRING)", "Default string 1",
		"To be filled by O.E.M.", "To Be Filled By O.E.M.", "To Be Filled By O.E.M", "Filled by OEM", "O.E.M.", "OEM",
		"OEM_Define1", "OEM-0000000000", "System manufacturer", "System Manufacturer", "System Product Name",
		"System Serial Number", "SystemSerial001", "System SN", "System Version", "Chassis Serial Number",
		"Chassis_Serial",
		"Base Board Serial Number", "Type2 - Board Serial Number", "Type3 - Chassis Serial Number",
		"Unknown", "Unknow", "UNKNOWN SERIAL", "Undefined", "Unspecified", "INVALID", "Invalid Serial", "Empty",
		"EMPTY",
		"SerNum0", "SN", "S/N", "Serial#", "Serial Number", "Asset-1234567890", "No Asset Tag", "No Serial", "Number",
		"123456789", "1234567890", "0123456789", "12345678", "12345", "987654321", "01234567890123456789",
		"0123456789ABCDEF", "ABCDEFGH", "1234-5678-9012-3456", "BSN12345678901234567", "SN1234567890", "1234567890123",
		"00000000", "0000-0000", "00 00 00 00", "11111111", "XXXXXXXX", "xxx", "x.x.x", "FFFFFFFF", "ffffffffffff",
		"0x00000000", "00000001", "1010101010", "123123123", "12341234", "ababab", "99999999", "........0........",
		"1234", "123", "321", "4321", "0123", "789", "1-2-3", "SN 1234", "Serial-123",
		"1.0", "V1.0", "v1.0.2", "Rev 1.0", "Rev.1.0", "REV: 2", "rev1", "Ver 3.1", "Version 1.2", "version1.0", "V2",
		"Board Rev 1.0", "Default string v1.0", "0.1",
		"00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
		"FEFEFEFE-FEFE-FEFE-FEFE-FEFEFEFEFEFE", "03000200-0400-0500-0006-000700080009",
		"00020003-0004-0005-0006-000700080009", "12345678-1234-5678-90AB-CDDEEFAABBCC",
		"00112233-4455-6677-8899-AABBCCDDEEFF", "11111111-2222-3333-4444-555555555555",
		"01234567-89AB-CDEF-0123-456789ABCDEF",
	} {
		if TellingSerial(s) {
			t.Errorf("%q passes as a serial number of one machine", s)
		}
	}
}

func TestRealSerials(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"S1", "S-3", "X123", "CZC1234567", "5CD0123ABC", "CND8412K9X", "MXL2341XYZ", "PF0ABCDE", "PC0XQ4TR", "R90MKN2T",
		"7XK2Q13", "JBLNQKD", "G4TQLR2", "YLNX012345", "C02XG0FDH7JY", "FVFXK1ABHV2J", "LXRZ90C0011250A6D41601",
		"NXMVMEG00203512A6B7600", "GE7S012345678", "124", "V4711082", "REV0A417C2", "000000123", "V-4711", "12.0417",
		"CZC1234567 Rev 1.0", "3728-1104-9947-2205-6613-0482-90", "S453906X8123456",
		"VMware-56 4d 3c 1f 0a 8b 9e 21-7c 55 12 e0 9a 77 41 0d", "VirtualBox-2f9d6a1e-7c44-4f0e-9a10-1c5b3e8d7f20",
		"GoogleCloud-5F3A9C11D2E84B7A", "ec2a8f3c-7e21-9d04-55b1-0c9f8e7d6a5b", "SN 4711-0815", "Serial 5CD9087XQW",
		"000000417", "000000017", "DTVE1AA00250700C2D3000", "2102310QPF10K2000017", "Q1W2-ER34-T5Y6",
		"4C4C4544-0051-3010-8052-B4C04F4B4D32", "00000000-0000-0000-0000-AC1F6B3D9E72",
		"31393436-3631-5A43-4A38-353130395858", "d6b2fb0e-2d4f-4c8a-9d37-5f0f4f4d7b11",
	} {
		if !TellingSerial(s) {
			t.Errorf("%q is taken for a placeholder", s)
		}
	}
}

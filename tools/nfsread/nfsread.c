/*
 * nfsread SERVER EXPORT reads files over NFS 4 with libnfs, for `pando-lab storm`.
 *
 * For each line "OFFSET LENGTH PATH" on standard input it writes a line with the number of bytes, and these bytes, to
 * standard output. A file stays open after its first read. The first error ends the program.
 *
 * A server closes the files of a client that sends nothing for the time of a lease, usually 60 to 90 seconds. A read
 * renews the lease (RFC 7530, 9.5). libnfs leaves that to its caller, so this program reads a byte at intervals while
 * it waits for a line.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <nfsc/libnfs.h>

enum { MOST_FILES = 16384, MOST_BYTES = 1 << 20, RENEW_MS = 20000 };

static struct { char *path; struct nfsfh *handle; } files[MOST_FILES];

static struct nfsfh *newest; /* the handle that was opened last */

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "nfsread: %s: %s\n", what, why);
	exit(1);
}

/* handle returns the handle of a file, and opens the file if necessary. The table uses open addressing. */
static struct nfsfh *handle(struct nfs_context *nfs, const char *path)
{
	uint32_t at = 2166136261u;
	for (const char *c = path; *c; c++)
		at = (at ^ (unsigned char)*c) * 16777619u;
	for (int tries = 0; tries < MOST_FILES; tries++, at++) {
		at %= MOST_FILES;
		if (!files[at].path) {
			if (nfs_open(nfs, path, O_RDONLY, &files[at].handle) != 0)
				fail(path, nfs_get_error(nfs));
			files[at].path = strdup(path);
			return newest = files[at].handle;
		}
		if (strcmp(files[at].path, path) == 0)
			return files[at].handle;
	}
	fail(path, "too many files");
	return NULL;
}

/* ask reads the next line, and renews the lease until it comes. The caller sends one line at a time, so no further line
 * is in stdin's buffer. */
static char *ask(struct nfs_context *nfs, char *line, int size)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	char byte;

	while (poll(&in, 1, RENEW_MS) == 0)
		if (newest && nfs_pread(nfs, newest, 0, 1, &byte) < 0)
			fail("renew the lease", nfs_get_error(nfs));
	return fgets(line, size, stdin);
}

int main(int argc, char **argv)
{
	static char line[8192], bytes[MOST_BYTES];
	struct nfs_context *nfs = nfs_init_context();

	if (argc != 3)
		fail("usage", "nfsread SERVER EXPORT");
	if (!nfs || nfs_set_version(nfs, 4) != 0 || nfs_mount(nfs, argv[1], argv[2]) != 0)
		fail(argv[1], nfs ? nfs_get_error(nfs) : "no memory");
	puts("mounted");
	fflush(stdout);
	while (ask(nfs, line, sizeof line)) {
		unsigned long long offset, length;
		int name = 0;

		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%llu %llu %n", &offset, &length, &name) != 2 || !name || length > MOST_BYTES)
			fail("request", line);
		struct nfsfh *file = handle(nfs, line + name);
		uint64_t have = 0;
		while (have < length) {
			int n = nfs_pread(nfs, file, offset + have, length - have, bytes + have);
			if (n < 0)
				fail(line + name, nfs_get_error(nfs));
			if (n == 0)
				break;
			have += n;
		}
		printf("%llu\n", (unsigned long long)have);
		fwrite(bytes, 1, have, stdout);
		fflush(stdout);
	}
	return 0;
}

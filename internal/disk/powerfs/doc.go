// Package powerfs is a file system in memory for tests of what must survive a power cut, a kill, a
// full disk or a failing one. It keeps what the programs see (the kernel's cache) apart from what
// is on the disk. It is as unkind about the difference as POSIX allows, although no real file
// system is unkind in all of these ways:
//
//   - Bytes that were written and not synced: each sector of SectorBytes is there, or as it was
//     (zeros where the file was shorter), or torn at any byte. Later sectors may survive earlier
//     ones, and the file's new size may survive without its bytes.
//   - Names that were made, replaced, linked or removed since the last SyncDir: each change
//     survives or not, whatever became of the others. A file's Sync makes no name durable.
//   - After Sync, and SyncDir, all of that is on the disk.
//   - A Sync that fails drops the bytes that it should have written, as Linux does. The cache still
//     shows them, and the next Sync succeeds without writing them. Nobody knows whether they are on
//     the disk. A SyncDir that fails changes nothing, because a journal that cannot be written
//     stops the file system.
//
// Every call that changes something or makes it durable is an Op with a number. Plan says, by
// number, kind or name, which of them fail, take time, or are the last before the power goes. Then
// Reboot returns what a disk may hold; its seed picks one of the many ways. Restart returns the
// same kernel to the next process, after a kill.
//
// One process uses an FS at a time. All methods may be called from any goroutine.
//
// The crashable file system of pebble (vfs.MemFS) does not replace it. Blocks of 4 KiB survive a
// crash there whole or not at all, a failed sync loses nothing, and there is no plan by operation.
// An adapter that adds these would be as long as this package, and pebble would bring its
// dependencies into the module.
package powerfs

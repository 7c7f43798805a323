// Package powerfs is a file system in memory for tests of what must survive a power cut, a kill, a full disk or a failing one. It
// keeps what the programs see (the kernel's cache) apart from what is on the disk, and is as unkind about the difference as POSIX
// allows, though no real file system is so in all of it:
//
//   - Bytes written and not synced: each sector of SectorBytes is there, or as it was (zeros where the file was shorter), or torn at
//     any byte; later sectors may survive earlier ones, and the file's new size may survive without its bytes.
//   - Names made, replaced, linked or removed since the last SyncDir: each change survives or not, whatever became of the others. A
//     file's Sync makes no name durable.
//   - After Sync, and SyncDir, all of that is on the disk.
//   - A Sync that fails drops what it should have written, as Linux does: the cache still shows it, and the next Sync, which says
//     that all is well, does not write it. Whether it is on the disk nobody knows. A SyncDir that fails changes nothing: journals
//     that cannot be written stop the file system.
//
// Every call that changes something or makes it durable is an Op with a number. Plan says, by number, kind or name, which of them
// fail, take time, or are the last before the power goes. Then Reboot gives what a disk may hold, which of the many ways its seed
// says; Restart gives the same kernel to the next process, after a kill.
//
// One process uses an FS at a time. All methods may be called from any goroutine.
package powerfs

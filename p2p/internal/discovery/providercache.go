package discovery

// noCache is a cache of providers that holds nothing (simplelru.LRUCache). kad-dht's own has no
// bound on the providers of one key: a flood under a run's name would grow it for as long as an
// announcement lives, while the store behind it (announcements) has its bound and is in memory
// anyway.
type noCache struct{}

func (noCache) Add(_, _ any) bool                       { return false }
func (noCache) Get(any) (value any, ok bool)            { return nil, false }
func (noCache) Contains(any) bool                       { return false }
func (noCache) Peek(any) (value any, ok bool)           { return nil, false }
func (noCache) Remove(any) bool                         { return false }
func (noCache) RemoveOldest() (key, value any, ok bool) { return nil, nil, false }
func (noCache) GetOldest() (key, value any, ok bool)    { return nil, nil, false }
func (noCache) Keys() []any                             { return nil }
func (noCache) Len() int                                { return 0 }
func (noCache) Purge()                                  {}
func (noCache) Resize(int) int                          { return 0 }

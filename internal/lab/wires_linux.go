package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// makeWires makes the nodes' namespaces, the bridge's, and what connects them. It returns what it
// made even if it fails.
func makeWires(ctx context.Context, cfg Config) (names []string, err error) {
	if err := os.MkdirAll(namespaces, 0o755); err != nil {
		return nil, explain(err)
	}
	if err := shareNamespaces(); err != nil {
		return nil, fmt.Errorf("%s: %w", namespaces, explain(err))
	}
	number := labs.Add(1)
	for i := range cfg.Nodes + 1 {
		name := fmt.Sprintf("%s-%d-%d-%d", cfg.Name, os.Getpid(), number, i)
		if _, err := makeNamespace(name, func() (*tun, error) { return nil, nil }); err != nil {
			return names, fmt.Errorf("namespace %s: %w", name, explain(err))
		}
		names = append(names, name)
	}
	nodes, bridge := names[:cfg.Nodes], names[cfg.Nodes]
	if err := iproute(ctx, bridgeScript(cfg, nodes), "ip", "-n", bridge, "-batch", "-"); err != nil {
		return names, err
	}
	for i, node := range nodes {
		if err := iproute(ctx, nodeScript(cfg, i), "ip", "-n", node, "-batch", "-"); err != nil {
			return names, err
		}
		if err := fillBucket(ctx, cfg, node); err != nil {
			return names, err
		}
	}
	return names, nil
}

// fillBucket gives a node's end of its pair the link's rate.
func fillBucket(ctx context.Context, cfg Config, node string) error {
	if cfg.Link.Rate == 0 {
		return nil
	}
	return iproute(ctx, "", "tc", append([]string{"-n", node, "qdisc", "add", "dev", wireName, "root"},
		cfg.bucket()...)...)
}

// iproute runs a program of iproute2.
func iproute(ctx context.Context, stdin, program string, args ...string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Errorf("%w: install iproute2", err)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s (this needs the kernel's veth, bridge and sch_tbf)", program,
			strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

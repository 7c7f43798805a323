package linkd

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// parseLink changes link by settings of the form KEY=VALUE.
func parseLink(link lab.Link, settings []string) (lab.Link, error) {
	var errs []error
	for _, s := range settings {
		key, value, ok := strings.Cut(s, "=")
		if !ok {
			errs = append(errs, fmt.Errorf("%q: want KEY=VALUE", s))
			continue
		}
		if err := setLink(&link, key, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s, err))
		}
	}
	errs = append(errs, link.Validate())
	return link, errors.Join(errs...)
}

func setLink(link *lab.Link, key, value string) (err error) {
	switch key {
	case "rate":
		link.Rate, err = parseRate(value)
	case "delay":
		link.Delay, err = time.ParseDuration(value)
	case "jitter":
		link.Jitter, err = time.ParseDuration(value)
	case "loss":
		link.Loss, err = parseLoss(value)
	case "queue":
		link.Queue, err = strconv.Atoi(value)
	case "reorder":
		link.Reorder, err = strconv.ParseBool(value)
	default:
		err = errors.New("settings of a link are rate, delay, jitter, loss, queue and reorder")
	}
	return err
}

// parseConfig reads the settings of `up`: those of all links, and those of the network.
func parseConfig(settings []string) (cfg lab.Config, err error) {
	var ofLinks []string
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		switch key {
		case "mtu":
			cfg.MTU, err = strconv.Atoi(value)
		case "seed":
			cfg.Seed, err = strconv.ParseUint(value, 10, 64)
		case "network":
			cfg.Network, err = netip.ParsePrefix(value)
		default:
			ofLinks = append(ofLinks, s)
		}
		if err != nil {
			return cfg, fmt.Errorf("%s: %w", s, err)
		}
	}
	cfg.Link, err = parseLink(cfg.Link, ofLinks)
	return cfg, err
}

// parseRate reads bits a second: a number with kbit, mbit or gbit behind it, or nothing; 0 and none
// are no limit.
func parseRate(text string) (int64, error) {
	if text == "none" {
		return 0, nil
	}
	number, unit := text, 1.0
	for suffix, factor := range map[string]float64{"kbit": 1e3, "mbit": 1e6, "gbit": 1e9} {
		if head, ok := strings.CutSuffix(strings.ToLower(text), suffix); ok {
			number, unit = head, factor
		}
	}
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || !(rate >= 0 && rate*unit <= 1e15) {
		return 0, errors.New("want a rate such as 200mbit, 1.5gbit, 64kbit or none")
	}
	return int64(math.Round(rate * unit)), nil
}

// parseLoss reads a share of packets: 5 of a thousand, or in percent as 0.5%.
func parseLoss(text string) (perMille int, err error) {
	number, factor := text, 1.0
	if head, ok := strings.CutSuffix(text, "%"); ok {
		number, factor = head, 10
	}
	loss, err := strconv.ParseFloat(number, 64)
	if perMille = int(math.Round(loss * factor)); err != nil || !(loss >= 0 && loss <= 1000) ||
		float64(perMille) != math.Round(loss*factor*1e6)/1e6 {
		return 0, errors.New("want packets of a thousand such as 5, or percent such as 0.5%")
	}
	return perMille, nil
}

// formatLink writes a link as parseLink reads it.
func formatLink(l lab.Link) string {
	rate := "none"
	if l.Rate > 0 {
		rate = strconv.FormatInt(l.Rate, 10)
	}
	return fmt.Sprintf("rate=%s delay=%v jitter=%v loss=%d queue=%d reorder=%v", rate, l.Delay, l.Jitter, l.Loss,
		l.Queue, l.Reorder)
}

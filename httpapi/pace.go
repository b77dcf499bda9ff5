package httpapi

import "time"

// leastRate is how many bytes a second the client of a download must take on average (rule API-27).
const leastRate = 16 << 10

// pace measures how long a download has waited for its client. Time in which the service prepares the next bytes does
// not count.
type pace struct {
	stall   time.Duration // the wait that is allowed beside that for leastRate, and the longest wait of one write
	written int64
	waited  time.Duration
}

// left returns how long the next write may wait for the client; 0 or less when the client was too slow.
func (p *pace) left() time.Duration {
	allowed := p.stall + time.Duration(float64(p.written)/leastRate*float64(time.Second))
	return min(allowed-p.waited, p.stall)
}

// add counts a write.
func (p *pace) add(bytes int, waited time.Duration) {
	p.written += int64(bytes)
	p.waited += waited
}

package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sosodev/duration"

	"ledgerline/clock"
	"ledgerline/domain/fault"
	"ledgerline/domain/phone"
	"ledgerline/events"
	"ledgerline/httpapi"
	"ledgerline/processes"
	"ledgerline/processes/carrier"
)

// Dev are the routes of the dev mode: they read and move the clock, and simulate a message from a contact. They need no
// credentials, so they answer only to programs on this machine, and not to browsers: no web page may move the clock.
type Dev struct {
	Clock *clock.Movable

	node *Node
}

// RegisterDev adds the dev routes. Call it before the node serves.
func (n *Node) RegisterDev(d Dev) {
	d.node = n
	routes := n.API.Engine().Group("/dev", d.local)
	routes.GET("/clock", d.answer(d.readClock))
	routes.POST("/clock", d.answer(d.moveClock))
	routes.POST("/inbound", d.answer(d.inbound))
}

// local refuses requests that do not come from a program on this machine. It checks the address of the connection,
// since headers can be forged. A proxy on this machine connects from a loopback address too; its headers give it away.
func (d *Dev) local(c *gin.Context) {
	switch {
	case !loopback(c.Request.RemoteAddr):
		d.node.API.Refuse(c, fault.New(fault.Forbidden, "The dev routes answer on the loopback interface only."))
	case !localName(c.Request.Host):
		d.node.API.Refuse(c, fault.New(fault.Forbidden, "The dev routes answer to localhost or a loopback address as the host only."))
	case forwarded(c.Request.Header):
		d.node.API.Refuse(c, fault.New(fault.Forbidden, "The dev routes do not answer through a proxy: the request has forwarding headers."))
	case len(c.Request.Header.Values("Origin")) > 0:
		d.node.API.Refuse(c, fault.New(fault.Forbidden, "The dev routes do not answer to browsers."))
	}
}

// forwarded reports whether a proxy has passed the request on for another client.
func forwarded(header http.Header) bool {
	for name := range header {
		switch name = strings.ToLower(name); name {
		case "forwarded", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "true-client-ip", "cf-connecting-ip", "via":
			return true
		default:
			if strings.HasPrefix(name, "x-forwarded") {
				return true
			}
		}
	}
	return false
}

func loopback(peer string) bool {
	at, err := netip.ParseAddrPort(peer)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// localName reports whether a Host header names this machine. Any other name could be an attacker's that resolves to a
// loopback address.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func (d *Dev) answer(do func(c *gin.Context) (any, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		out, err := do(c)
		if err != nil {
			d.node.API.Refuse(c, err)
			return
		}
		c.JSON(http.StatusOK, out)
	}
}

// maxDevBody is in bytes, as everywhere else.
const maxDevBody = 1 << 20

// read decodes a JSON body strictly: an unknown property is an error.
func read(c *gin.Context, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(c.Writer, c.Request.Body, maxDevBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more after it")
		}
	}
	tooLarge, wrong := (*http.MaxBytesError)(nil), (*json.UnmarshalTypeError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &tooLarge):
		return fault.New(fault.PayloadTooLarge, "The body is larger than 1 MiB.")
	case errors.As(err, &wrong):
		return fault.Invalid("/"+strings.ReplaceAll(wrong.Field, ".", "/"), "type", "This is not of type %s.", wrong.Type)
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		return fault.Invalid("/"+strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`), "unknown", "There is no such property.")
	}
	return fault.New(fault.BadRequest, "The body is not one JSON object.")
}

type now struct {
	Now httpapi.Timestamp `json:"now"`
}

func (d *Dev) readClock(*gin.Context) (any, error) {
	return now{httpapi.TimestampOf(d.Clock.Now())}, nil
}

// moveClock moves the clock forward, by {"advance": "PT2H"} or to {"now": "…"}. Before it moves the clock it waits for
// work in progress, and before it answers it waits for the work that became due; each for settleBound at most.
func (d *Dev) moveClock(c *gin.Context) (any, error) {
	var in struct {
		Advance *string `json:"advance"`
		Now     *string `json:"now"`
	}
	if err := read(c, &in); err != nil {
		return nil, err
	}
	if (in.Advance == nil) == (in.Now == nil) {
		return nil, fault.Invalid("", "one_of", `Give either advance, for example "PT2H", or now.`)
	}
	d.settle(c.Request.Context())
	moved, err := d.move(in.Advance, in.Now)
	if err != nil {
		return nil, err
	}
	d.settle(c.Request.Context())
	return now{httpapi.TimestampOf(moved)}, nil
}

func (d *Dev) move(advance, to *string) (time.Time, error) {
	if to != nil {
		at, err := time.Parse(time.RFC3339Nano, *to)
		if err != nil {
			return at, fault.Invalid("/now", "date_time", "This is not a time as RFC 3339 writes it.")
		}
		moved, err := d.Clock.Set(at)
		return moved, backwards(err, "/now")
	}
	by, err := duration.Parse(*advance)
	days, _, _ := strings.Cut(*advance, "T")
	switch {
	case err != nil, strings.HasSuffix(*advance, "P"), strings.HasSuffix(*advance, "T"):
		return time.Time{}, fault.Invalid("/advance", "duration", "This is not a duration as ISO 8601 writes it, for example PT2H.")
	case strings.ContainsAny(days, "YM"):
		return time.Time{}, fault.Invalid("/advance", "duration", "Years and months have no fixed length: give weeks, days, hours, minutes and seconds, or now.")
	}
	moved, err := d.Clock.Advance(by.ToTimeDuration())
	return moved, backwards(err, "/advance")
}

func backwards(err error, pointer string) error {
	if errors.Is(err, clock.ErrBackwards) {
		return fault.Invalid(pointer, "backwards", "The clock moves forward only.")
	}
	return err
}

// quietSQL reports whether no scheduled task is due or leased, and no step of the simulator is due. Retries that are
// not due yet do not count.
const quietSQL = `select
	not exists (select from scheduled_tasks
		where due_at <= $1 and (retry_at is null or retry_at <= now()) or lease_until > now())
	and not exists (select from simulator.messages
		where due_at <= $1 and sends > 0 and (retry_at is null or retry_at <= now()))`

// How long settle waits at most, and how often it asks, in real time.
const (
	settleBound = 5 * time.Second
	settleTick  = 5 * time.Millisecond
)

// settle waits until no work is in progress or due. It is a convenience for the caller: the work is done in any case.
func (d *Dev) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, settleBound)
	defer cancel()
	tick := time.NewTicker(settleTick)
	defer tick.Stop()
	for {
		if quiet, err := d.quiet(ctx); err != nil || quiet {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// quiet reports whether no work is in progress or due. The work of a process ends with an event, and consumers schedule
// tasks for an event in the transaction of their checkpoint. So there is no work when all consumers have reached the
// head, no task is due, and the head has not moved meanwhile.
func (d *Dev) quiet(ctx context.Context) (bool, error) {
	before, ok := d.heads()
	if !ok {
		return false, nil
	}
	var quiet bool
	if err := d.node.pool.QueryRow(ctx, quietSQL, d.Clock.Now()).Scan(&quiet); err != nil {
		return false, fmt.Errorf("service: read due tasks: %w", err)
	}
	after, ok := d.heads()
	return quiet && ok && slices.Equal(before, after), nil
}

// heads returns the head of each shard; false while a consumer has not reached one.
func (d *Dev) heads() ([]int64, bool) {
	list := make([]int64, d.node.Ledger.Shards())
	for shard := range list {
		list[shard] = d.node.Ledger.KnownHead(shard)
	}
	for _, at := range d.node.Runner.Lag() {
		if at.Behind > 0 {
			return nil, false
		}
	}
	return list, true
}

// inbound simulates a message from a contact to a line, as a carrier would report it.
func (d *Dev) inbound(c *gin.Context) (any, error) {
	var in struct {
		From    string         `json:"from"`
		To      string         `json:"to"`
		Body    string         `json:"body"`
		Media   []events.Media `json:"media"`
		Channel string         `json:"channel"`
		// CarrierID is the carrier's own id of the message: the same one again is a duplicate.
		CarrierID string `json:"carrier_id"`
	}
	if err := read(c, &in); err != nil {
		return nil, err
	}
	var issues []fault.Issue
	wrong := func(path, code, message string) {
		issues = append(issues, fault.Issue{Location: "body", Path: path, Code: code, Message: message})
	}
	if _, ok := phone.Read(in.From); !ok {
		wrong("/from", "invalid_phone", "This is not a valid phone number.")
	}
	to, ok := phone.Read(in.To)
	if !ok {
		to = in.To // the number of a sandbox line is not valid elsewhere
	}
	if in.To == "" {
		wrong("/to", "required", "Name the number of a line.")
	}
	if in.Body == "" && len(in.Media) == 0 {
		wrong("/body", "required", "Give a body, media or both.")
	}
	for i := range in.Media {
		checkMedia(&in.Media[i], fmt.Sprintf("/media/%d", i), wrong)
	}
	if len(in.CarrierID) > maxCarrierID {
		wrong("/carrier_id", "too_long", fmt.Sprintf("A carrier's id has at most %d bytes.", maxCarrierID))
	}
	if in.Channel == "" {
		in.Channel = "chat"
	}
	if in.Channel != "chat" && in.Channel != "sms" {
		wrong("/channel", "enum", "The channel is chat or sms.")
	}
	if len(issues) > 0 {
		return nil, fault.Invalids(issues...)
	}
	id, err := processes.NewInbox(d.node.App).Message(c.Request.Context(), carrier.Inbound{
		LinePhone: to, From: in.From, Body: in.Body, Media: in.Media, Channel: in.Channel, CarrierID: in.CarrierID,
	})
	return map[string]string{"message_id": id}, err
}

const maxCarrierID = 255

// checkMedia checks that an attachment can be shown in a message.
func checkMedia(m *events.Media, path string, wrong func(path, code, message string)) {
	switch at, err := url.Parse(m.URL); {
	case m.URL == "":
		wrong(path+"/url", "required", "An attachment needs its address.")
	case err != nil || at.Scheme == "" || at.Host == "":
		wrong(path+"/url", "uri", "This is not the address of a file.")
	}
	if m.Size != nil && *m.Size < 0 {
		wrong(path+"/size", "minimum", "A size is 0 bytes or more.")
	}
}

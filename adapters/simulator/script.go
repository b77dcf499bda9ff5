package simulator

import (
	"regexp"
	"time"

	"ledgerline/processes/carrier"
)

// sandboxNumber matches the numbers whose last two digits choose a script.
var sandboxNumber = regexp.MustCompile(`^\+1[0-9]{3}55501([0-9]{2})$`)

// readAfter is how long after its delivery a message on chat is read.
const readAfter = 2 * time.Second

// Error codes that scripts end with.
const (
	codeNotOnChat = "not_on_chat"
	codeRejected  = "carrier_rejected"
	codeSMSFails  = "sms_undeliverable"
)

// script is what becomes of a message.
type script struct {
	name    string
	rejects string // error code with which Send rejects the message for good; "" when Send accepts it
	refuses int    // calls of Send that are refused for now before one is accepted
	steps   []step
}

// step is one report to the Inbox.
type step struct {
	after   time.Duration // since the message was accepted
	receipt string        // kind of receipt; "" for a reply
	code    string        // error code of a failed receipt
	reply   string        // text of the reply
	echo    bool          // reply with the message itself
}

func (s step) replies() bool { return s.receipt == "" }

var (
	delivered = step{receipt: carrier.ReceiptDelivered}
	read      = step{receipt: carrier.ReceiptRead, after: readAfter}
	failed    = step{receipt: carrier.ReceiptFailed, code: codeRejected}
)

// scripts are the scripts by name, as they run on chat. A reply comes as soon as the message is delivered, and the
// message is read 2 s later like any other.
var scripts = map[string]script{
	"plain":  {steps: []step{delivered, read}},
	"failed": {steps: []step{failed}},
	"flaky":  {refuses: 2, steps: []step{delivered, read}},
	"silent": {},
	"late": {steps: []step{
		{receipt: carrier.ReceiptDelivered, after: 30 * time.Second},
		{receipt: carrier.ReceiptRead, after: 30*time.Second + readAfter},
	}},
	"stop": {steps: []step{delivered, {reply: "STOP"}, read}},
	"help": {steps: []step{delivered, {reply: "HELP"}, read}},
	"yes":  {steps: []step{delivered, {reply: "yes"}, read}},
	"echo": {steps: []step{delivered, {echo: true}, read}},
}

// digits returns the last two digits of a sandbox number, and 0 for any other number.
func digits(phone string) int {
	found := sandboxNumber.FindStringSubmatch(phone)
	if found == nil {
		return 0
	}
	return int(found[1][0]-'0')*10 + int(found[1][1]-'0')
}

func onChat(phone string) bool {
	d := digits(phone)
	return (d < 80 || d > 84) && d != 88
}

// scriptOf chooses the script for a message.
func scriptOf(out carrier.Outbound) script {
	if out.Channel == "chat" && !onChat(out.To) {
		return script{rejects: codeNotOnChat}
	}
	name := "plain"
	switch d := digits(out.To); {
	case d == 85 && out.Channel == "chat": // chat accepts it and cannot deliver it; SMS can
		name = "failed"
	case d == 86:
		name = "flaky"
	case d == 87:
		name = "silent"
	case d == 88:
		return script{rejects: codeSMSFails}
	case d == 89:
		name = "late"
	case d >= 90 && !out.Automatic: // automatic texts get no scripted reply
		name = [...]string{"stop", "help", "yes", "echo"}[min(d-90, 3)]
	}
	if out.Channel != "chat" {
		name += smsSuffix
	}
	return scriptNamed(name)
}

// smsSuffix marks a script that runs by SMS, which has no read receipts.
const smsSuffix = "/sms"

// scriptNamed returns the script with a stored name.
func scriptNamed(name string) script {
	base, sms := name, false
	if n := len(name) - len(smsSuffix); n > 0 && name[n:] == smsSuffix {
		base, sms = name[:n], true
	}
	s := scripts[base]
	s.name = name
	if sms {
		var steps []step
		for _, st := range s.steps {
			if st.receipt != carrier.ReceiptRead {
				steps = append(steps, st)
			}
		}
		s.steps = steps
	}
	return s
}

// next is when a step is due for a message that was accepted at a time; nil when the script is over.
func (s script) next(step int, accepted time.Time) *time.Time {
	if step >= len(s.steps) {
		return nil
	}
	due := accepted.Add(s.steps[step].after)
	return &due
}

// repliesFrom reports whether a reply is among the steps from this one on.
func (s script) repliesFrom(step int) bool {
	for i := step; i < len(s.steps); i++ {
		if s.steps[i].replies() {
			return true
		}
	}
	return false
}

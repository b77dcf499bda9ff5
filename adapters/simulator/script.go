package simulator

import (
	"regexp"
	"time"

	"ledgerline/processes/carrier"
)

// sandboxNumber are the numbers that are scripted by their last two digits (decisions, sections 1 and 14).
var sandboxNumber = regexp.MustCompile(`^\+1[0-9]{3}55501([0-9]{2})$`)

// readAfter is when a message on the chat channel is read, counted from its delivery.
const readAfter = 2 * time.Second

// Error codes that scripts end with.
const (
	codeNotOnChat = "not_on_chat"
	codeRejected  = "carrier_rejected"
	codeSMSFails  = "sms_undeliverable"
)

// script is what a number does with a message.
type script struct {
	name    string
	rejects string // error code with which Send refuses for good; "" when it does not
	refuses int    // calls of Send that are refused for now, before one is taken
	steps   []step
}

// step is one report to the Inbox.
type step struct {
	after   time.Duration // since the message was taken
	receipt string        // kind of receipt; "" for a reply
	code    string        // of a failed receipt
	reply   string        // text of the reply
	echo    bool          // reply with the message itself
}

func (s step) replies() bool { return s.receipt == "" }

var (
	delivered = step{receipt: carrier.ReceiptDelivered}
	read      = step{receipt: carrier.ReceiptRead, after: readAfter}
	failed    = step{receipt: carrier.ReceiptFailed, code: codeRejected}
)

// The scripts of decisions section 14, by name, as they run on the chat channel. What is told there in few words is read
// like this: "delivery fails" is a message that is taken and then gets a failed receipt; whoever replies does so as soon
// as the message is delivered, and it is read after 2 s like any other.
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

// digits are the last two of a sandbox number, and 0 for any other number.
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
	case d == 85 && out.Channel == "chat": // chat takes it and cannot deliver it; SMS can
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

// smsSuffix marks a script that runs by SMS, where nothing tells that a message was read.
const smsSuffix = "/sms"

// scriptNamed finds a script again by the name it was stored with.
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

// next is when a step is due for a message that was taken at a time; nil when the script is over.
func (s script) next(step int, accepted time.Time) *time.Time {
	if step >= len(s.steps) {
		return nil
	}
	due := accepted.Add(s.steps[step].after)
	return &due
}

// repliesFrom tells whether a reply is still to come.
func (s script) repliesFrom(step int) bool {
	for i := step; i < len(s.steps); i++ {
		if s.steps[i].replies() {
			return true
		}
	}
	return false
}

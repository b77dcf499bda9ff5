package rules

import (
	"unicode/utf8"

	"mvdan.cc/xurls/v2"

	"ledgerline/domain/phone"
)

// mention finds web and e-mail addresses, with or without a scheme.
var mention = xurls.Relaxed()

// firstMessage defers a message that breaks the first-message rules until the contact writes (rules SND-14 to SND-17).
func firstMessage(f *Facts) *Verdict {
	if f.Replied {
		return nil
	}
	broken := firstMessageBreaks(f)
	if len(broken) == 0 {
		return nil
	}
	v := deferFor(ReasonFirstMessage, nil, "")
	v.Detail = map[string]any{"rules": broken}
	return v
}

func firstMessageBreaks(f *Facts) []string {
	var broken []string
	if !f.Routed && f.MessagesBeforeReply >= f.Limits.PreReplyMaxMessages {
		broken = append(broken, "pre_reply_max_messages")
	}
	if utf8.RuneCountInString(f.Body) > f.Limits.PreReplyMaxChars {
		broken = append(broken, "pre_reply_max_chars")
	}
	if f.Media > 0 {
		broken = append(broken, "media")
	}
	body := plain(f.Body)
	links, addresses := mentions(body)
	if links {
		broken = append(broken, "link")
	}
	if addresses {
		broken = append(broken, "email")
	}
	if phone.ContainsNumber(body) {
		broken = append(broken, "phone_number")
	}
	return broken
}

// mentions reports whether a text contains links and e-mail addresses.
func mentions(body string) (links, addresses bool) {
	if !mayMention(body) {
		return false, false
	}
	for _, found := range mention.FindAllString(body, -1) {
		if isAddress(found) {
			addresses = true
		} else {
			links = true
		}
	}
	return links, addresses
}

// mayMention is a cheap filter before the search: an address has an @, or a dot or colon within a word.
func mayMention(body string) bool {
	for i := 1; i+1 < len(body); i++ {
		switch body[i] {
		case '@':
			return true
		case '.', ':':
			if body[i-1] > ' ' && body[i+1] > ' ' {
				return true
			}
		}
	}
	return false
}

func isAddress(found string) bool {
	for i, r := range found {
		switch r {
		case '@':
			return i > 0
		case '/', ':':
			return false
		}
	}
	return false
}

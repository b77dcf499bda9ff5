package poster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"ledgerline/adapters/outward"
)

// describe says in words for a user of the API why there was no answer. It never returns the text of an error, which
// could contain an address inside our network.
func (p *Poster) describe(err error) string {
	var (
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		invalid     x509.CertificateInvalidError
		record      tls.RecordHeaderError
		alert       tls.AlertError
	)
	switch {
	case errors.Is(err, outward.ErrInside):
		return "refused: the host has no address on the public internet"
	case errors.As(err, &dns):
		switch {
		case dns.IsNotFound:
			return "DNS: there is no such host"
		case dns.IsTimeout:
			return "DNS: timed out"
		}
		return "DNS: the host could not be looked up"
	case errors.As(err, &hostname):
		return "TLS: the certificate is for another host"
	case errors.As(err, &invalid):
		if invalid.Reason == x509.Expired {
			return "TLS: the certificate has expired or is not valid yet"
		}
		return "TLS: the certificate is not valid"
	case errors.As(err, &authority):
		return "TLS: the certificate is of an unknown authority"
	case errors.As(err, &certificate):
		return "TLS: the certificate is not trusted"
	case errors.As(err, &record):
		return "TLS: the receiver does not speak TLS"
	case errors.As(err, &alert), strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "TLS handshake"):
		return "TLS: the handshake failed"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), timedOut(err):
		return "timed out: no answer within " + p.timeout.String()
	case errors.Is(err, context.Canceled):
		return "the attempt was cut off"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the receiver reset the connection"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "the host cannot be reached"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), strings.Contains(err.Error(), "server closed idle connection"):
		return "the receiver closed the connection without an answer"
	case strings.Contains(err.Error(), "server response headers exceeded"):
		return "the header of the answer is longer than 64 KiB"
	case strings.Contains(err.Error(), "malformed HTTP"):
		return "the answer is not HTTP"
	}
	return "the connection failed"
}

func timedOut(err error) bool {
	timeout := net.Error(nil)
	return errors.As(err, &timeout) && timeout.Timeout()
}

package twilio

import (
	"encoding/base64"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSignatureIsThatOfTheProvidersDocumentation uses the example of the provider's documentation.
func TestSignatureIsThatOfTheProvidersDocumentation(t *testing.T) {
	t.Parallel()
	form := url.Values{"CallSid": {"CA1234567890ABCDE"}, "Caller": {"+14158675309"}, "Digits": {"1234"}, "From": {"+14158675309"}, "To": {"+18005551212"}}
	got := sign("12345", "https://mycompany.com/myapp.php?foo=1&bar=2", form)
	require.Equal(t, "RSOYDt4T1cUTdK1PDd93/VVr8B8=", base64.StdEncoding.EncodeToString(got))
}

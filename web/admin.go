package web

import (
	"errors"
)

var errNewPassword = errors.New("the password was made for the account")

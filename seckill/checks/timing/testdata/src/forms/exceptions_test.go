package forms

import (
	"testing"
	"time"
)

func TestExceptions(t *testing.T) {
	time.Sleep(time.Second) //timing: this program outlives its limit
	//timing: a person needs time to read
	time.Sleep(time.Second)
	time.Sleep(time.Second) // want `sleeps`
	time.Sleep(time.Second) //timing: // want `sleeps` `an exception without a reason`
	t.Log()                 //timing: nothing is here // want `an exception that excuses nothing`
	// timing: is not the form
	time.Sleep(time.Second) // want `sleeps`
}

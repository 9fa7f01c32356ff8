package mutants

// All returns the mutants.
func All() []Mutant {
	return []Mutant{
		// Messages are lost.
		{
			Name: "a bridge settles what it has published, before the broker confirms",
			File: "redisbridge/promote.go",
			Old:  "		s.b.stop(began, err)\n		land(err)\n	})\n	if err != nil {\n		left()\n		return err\n	}\n",
			New:  "		s.b.stop(began, err)\n	})\n	if err != nil {\n		left()\n		return err\n	}\n	land(nil)\n",
			Rule: "published, and comes",
		},
		{
			Name: "what a dead bridge had claimed is forgotten",
			File: "redisbridge/lua/claim.lua",
			Old:  "  schedule_add(KEYS[1], notes)\n  redis.call('DEL', KEYS[3])\n",
			New:  "  redis.call('DEL', KEYS[3])\n",
			Rule: "published, and comes",
		},
		{
			Name: "the intake acknowledges before Redis has the message",
			File: "redisbridge/intake.go",
			Old:  "	for unsure := false; ; {\n		err := b.place(work, ready, &e)\n",
			New:  "	acks.add(d.DeliveryTag)\n	for unsure := false; ; {\n		err := b.place(work, ready, &e)\n		if err == nil {\n			return\n		}\n",
			Rule: "published, and comes",
		},
		{
			Name: "a nack counts as a confirm",
			File: "internal/broker/line.go",
			Old:  "	return fmt.Errorf(\"exchange %s: %w\", s.exchange, ErrRefused)\n",
			New:  "	return nil\n",
			Rule: "published, and comes",
		},
		{
			Name: "an ID of which old copies may come takes no new message in",
			File: "redisbridge/lua/park.lua",
			Old:  "    local stays = r and not known and is_needed(key, r)\n",
			New:  "    local stays = false\n    if r and not known and is_needed(key, r) then known, known_due = '\\2', pack('>I6', r.due) end\n",
			Rule: "published, and comes",
		},
		{
			Name: "a new message with an ID that was rescheduled is taken for an old copy",
			File: "redisbridge/lua/arrive.lua",
			Old:  "  if r.state == delivered and version == 0 and not same and now - ARGV[9] >= r.parked_at then return {1} end\n",
			New:  "",
			Rule: "published, and comes",
		},
		{
			Name: "what one queue's consumer has got is not promoted again for another queue",
			File: "redisbridge/lua/arrive.lua",
			Old:  "if envelope and r.state == waiting and r.due <= now and",
			New:  "if false and",
			Rule: "comes, and has its effect",
		},
		{
			Name: "a consumer acknowledges what its handler could not do",
			File: "consumer/delivery.go",
			Old:  "		if o.Err == nil {\n			o.Outcome = Acknowledged\n",
			New:  "		if o.Err == nil || o.Attempts == 2 {\n			o.Outcome = Acknowledged\n",
			Rule: "comes, and has its effect",
		},
		{
			Name: "a rejected message is acknowledged, and not put into quarantine",
			File: "consumer/quarantine.go",
			Old:  "		err := s.publish(h.wanted, out)\n",
			New:  "		err := error(nil)\n",
			Rule: "rejected, and in quarantine",
		},

		// Effects are repeated, or withheld.
		{
			Name: "a ledger does not know its marks again",
			File: "consumer/ledger/postgres/postgres.go",
			Old:  "	return tag.RowsAffected() == 1, nil\n",
			New:  "	_ = tag\n	return true, nil\n",
			Rule: "closed once",
		},
		{
			Name: "what one consumer has got is withheld from another one that asks",
			File: "redisbridge/lua/arrive.lua",
			Old:  "if r.state == delivered then return {1} end\n",
			New:  "if r.state == delivered then return {2, r.parked_at} end\n",
			Rule: "dropped for a reason",
		},

		// Messages come early, or late.
		{
			Name: "a message leaves its lane 20 ms early",
			File: "redisbridge/route.go",
			Old:  "		out.Publishing.Expiration = message.ExpirationMS(p.left)\n",
			New:  "		out.Publishing.Expiration = message.ExpirationMS(p.left - 20*time.Millisecond)\n",
			Rule: "not early",
		},
		{
			Name: "a bridge goes by its own clock",
			File: "redisbridge/claim.go",
			Old:  "	return max(least, s.last.now)\n",
			New:  "	return max(least, s.last.now, time.Now().UnixMilli())\n",
			Rule: "not early",
			Only: "wrong clocks",
		},
		{
			Name: "the pause that a handler asks for is halved",
			File: "consumer/delay.go",
			Old:  "		pause = max(0, postponed.pause)\n",
			New:  "		pause = max(0, postponed.pause/2)\n",
			Rule: "not tried again early",
		},
		{
			Name: "a message that no lane suits is promoted 15 s late",
			File: "redisbridge/lua/lib.lua",
			Old:  "  return math.max(due - ahead_ms, parked_at), '0'\n",
			New:  "  return math.max(due - ahead_ms, parked_at) + 15000, '0'\n",
			Rule: "on time",
		},

		// Effects are wrong.
		{
			Name: "an order is closed although it is closed already",
			File: "consumer/orders/internal/change/change.go",
			Old:  "WHERE id = ? AND state = 'pending'`",
			New:  "WHERE id = ? AND (state = 'pending' OR state = 'closed')`",
			Rule: "closed once",
		},
		{
			Name: "an order is closed although it is paid",
			File: "consumer/orders/internal/change/change.go",
			Old:  "WHERE id = ? AND state = 'pending'`",
			New:  "WHERE id = ? AND (state = 'pending' OR state = 'paid')`",
			Rule: "either paid or closed",
		},
		{
			Name: "the stock of a closed order is not given back",
			File: "consumer/orders/internal/change/change.go",
			Old:  "			_, err = q.Exec(ctx, `UPDATE stock SET available = available + ? WHERE sku = ?`, o.Quantity, o.SKU)\n",
			New:  "",
			Rule: "the stock adds up",
		},
		{
			Name: "a parked message loses its priority",
			File: "message/wire.go",
			Old:  "	if m.Priority != 0 {\n		headers[HeaderPriority]",
			New:  "	if m.Priority > 2 {\n		headers[HeaderPriority]",
			Rule: "as it was sent",
		},
		{
			Name: "attempts are not counted",
			File: "consumer/delivery.go",
			Old:  "		o.Attempts++\n		o.Err = s.attempt(&o, story)\n",
			New:  "		o.Attempts += 2\n		o.Err = s.attempt(&o, story)\n",
			Rule: "attempts follow each other",
		},

		// Answers are wrong.
		{
			Name: "to cancel is answered with cancelled, whatever there is",
			File: "redisbridge/lua/cancel.lua",
			Old:  "  if r.state == delivered then return answer(3, r.parked_at, r.due, kept) end\n",
			New:  "  if r.state == delivered then return answer(1, r.parked_at, r.due, kept) end\n",
			Rule: "cancelled, and does not come",
		},
		{
			Name: "to cancel changes nothing where the broker has the message",
			File: "redisbridge/lua/cancel.lua",
			Old:  "  local over = math.max(r.due, now) + ARGV[2]\n",
			New:  "  local over = math.max(r.due, now) + ARGV[2]\n  if known and kept > 0 then return answer(1, now, r.due, over) end\n",
			Rule: "cancelled, and does not come",
		},
		{
			Name: "a tombstone is not looked at when a copy comes that Redis has not seen",
			File: "redisbridge/lua/arrive.lua",
			Old:  "  if tombstone then return {2, tombstone.parked_at} end\n",
			New:  "  if tombstone then return {1} end\n",
			Rule: "cancelled, and does not come",
		},
		{
			Name: "consumers ask nobody",
			File: "redisbridge/lua/arrive.lua",
			Old:  "local now = clock()\n",
			New:  "do return {1} end\nlocal now = clock()\n",
			Rule: "cancelled, and does not come",
		},
		{
			Name: "the old copy of a rescheduled message is delivered too",
			File: "redisbridge/lua/arrive.lua",
			Old:  "  return {3, r.due}\n",
			New:  "  return {1}\n",
			Rule: "rescheduled, and comes at the new time alone",
		},
		{
			Name: "to cancel is answered with delivered where the broker has the message",
			File: "redisbridge/lua/cancel.lua",
			Old:  "  local over = math.max(r.due, now) + ARGV[2]\n",
			New:  "  local over = math.max(r.due, now) + ARGV[2]\n  if known and kept > 0 then return answer(3, now, r.due, over) end\n",
			Rule: "delivered, as was answered",
		},
		{
			Name: "a consumer is told to drop what nobody has cancelled",
			File: "redisbridge/lua/arrive.lua",
			Old:  "if r.state == cancelled then return {2, r.parked_at} end\n",
			New:  "if r.state == cancelled or published % 16 == 1 then return {2, r.parked_at} end\n",
			Rule: "dropped for a reason",
		},
		{
			Name: "the list leaves out a shard",
			File: "redisbridge/list.go",
			Old:  "	for n := range p.keys {\n		head :=",
			New:  "	for n := range p.keys[1:] {\n		head :=",
			Rule: "looked up, as it was",
		},
		{
			Name: "a cancelled message is looked up as one that waits",
			File: "redisbridge/look.go",
			Old:  "		e.State, e.Ended = StateCancelled, changed\n",
			New:  "		e.State, e.Ended = StateParked, changed\n",
			Rule: "looked up, as it was",
		},
		{
			Name: "a made-up ID does not say that its message may be a repetition",
			File: "message/id.go",
			Old:  "		return MadeUpAgainPrefix + rand.Text()\n",
			New:  "		return MadeUpPrefix + rand.Text()\n",
			Rule: "without an ID, under one ID",
		},
		{
			Name: "a queue that answers nothing holds up the messages of others",
			File: "redisbridge/promote.go",
			Old:  "	return n >= window && n-s.unanswered.Silent() >= window\n",
			New:  "	return n >= 4\n",
			Rule: "waits for no other queue",
			Only: "target answers nothing",
		},
		{
			Name: "what the broker has confirmed stays claimed",
			File: "redisbridge/lua/settle.lua",
			Old:  "  if #ours > 0 then redis.call('ZREM', KEYS[2], unpack(ours)) end\n",
			New:  "",
			Rule: "keys in Redis agree",
		},
		{
			Name: "each message that is taken in leaves a goroutine behind",
			File: "redisbridge/intake.go",
			Old:  "				hands.Go(func() { take(&d) })\n",
			New:  "				hands.Go(func() { take(&d) })\n				go func() { select {} }()\n",
			Rule: "goroutines do not pile up",
		},
	}
}

# sbcl: compiles and runs functions with lists, hash tables, big numbers.
cat > work.lisp <<'L'
(defun work ()
  (let ((table (make-hash-table :test 'equal)))
    (dotimes (i 60000) (push i (gethash (format nil "k~a" (mod (* i 7919) 1009)) table)))
    (format t "keys ~a ~a~%" (hash-table-count table) (length (gethash "k17" table)))
    (format t "factorial ~a~%" (length (princ-to-string (reduce #'* (loop for i from 1 to 1500 collect i)))))
    (let ((v (make-array 200000)))
      (dotimes (i 200000) (setf (aref v i) (mod (* i 31) 100003)))
      (sort v #'<)
      (format t "sorted ~a ~a~%" (aref v 0) (aref v 100000)))))
(compile 'work)
(work)
(sb-ext:gc :full t)
(work)
L
sbcl --noinform --no-userinit --no-sysinit --non-interactive --load work.lisp

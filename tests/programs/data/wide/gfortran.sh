# gfortran: allocatable arrays and character handling, compiled and run.
cat > work.f90 <<'F'
program work
  implicit none
  real(8), allocatable :: a(:,:), b(:,:)
  integer, allocatable :: list(:)
  integer :: i, j, n
  character(len=:), allocatable :: text
  n = 200
  allocate(a(n,n), b(n,n))
  do j = 1, n
    do i = 1, n
      a(i,j) = mod(i * j, 17)
      b(i,j) = mod(i + j, 13)
    end do
  end do
  print '(a,f14.1)', 'product ', sum(matmul(a, b))
  allocate(list(0))
  do i = 1, 3000
    list = [list, mod(i * 7919, 1009)]
  end do
  print '(a,2i8)', 'list ', size(list), sum(list)
  text = ''
  do i = 1, 2000
    text = text // achar(97 + mod(i, 26))
  end do
  print '(a,i6,a)', 'text ', len(text), text(1:20)
end program
F
gfortran -O2 work.f90 -o work
./work
